package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// client speaks to one repository of a registry, as the distribution specification describes it.
type client struct {
	registry, repository string
}

func (c client) address(path string) string {
	return fmt.Sprintf("http://%s/v2/%s/%s", c.registry, c.repository, path)
}

// blob uploads what open gives, unless the repository has it or can mount it from another one.
func (c client) blob(d descriptor, from string, open func() (io.ReadCloser, error)) error {
	head, err := http.Head(c.address("blobs/" + d.Digest))
	if err != nil {
		return err
	}
	head.Body.Close()
	if head.StatusCode == http.StatusOK {
		return nil
	}
	uploads := c.address("blobs/uploads/")
	if from != "" {
		uploads += "?" + url.Values{"mount": {d.Digest}, "from": {from}}.Encode()
	}
	start, err := http.Post(uploads, "", nil)
	if err != nil {
		return err
	}
	start.Body.Close()
	if start.StatusCode == http.StatusCreated {
		return nil // mounted
	}
	location, err := start.Request.URL.Parse(start.Header.Get("Location"))
	if err != nil || start.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the registry refuses an upload: %s %v", start.Status, err)
	}
	query := location.Query()
	query.Set("digest", d.Digest)
	location.RawQuery = query.Encode()
	content, err := open()
	if err != nil {
		return err
	}
	defer content.Close()
	return put(location.String(), "application/octet-stream", content, d.Size)
}

func (c client) manifest(reference, mediaType string, content []byte) error {
	return put(c.address("manifests/"+reference), mediaType, bytes.NewReader(content), int64(len(content)))
}

func put(address, mediaType string, content io.Reader, size int64) error {
	request, err := http.NewRequest(http.MethodPut, address, content)
	if err != nil {
		return err
	}
	request.ContentLength = size
	request.Header.Set("Content-Type", mediaType)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		words, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
		return fmt.Errorf("%s: %s: %s", address, response.Status, words)
	}
	return nil
}

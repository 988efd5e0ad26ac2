package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
)

const (
	configType   = "application/vnd.docker.container.image.v1+json"
	layerType    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	listType     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

type descriptor struct {
	MediaType string         `json:"mediaType"`
	Size      int            `json:"size"`
	Digest    string         `json:"digest"`
	Platform  map[string]any `json:"platform,omitempty"`
}

// repository is where all platforms of an image go.
type repository struct {
	registry, name string
}

// image is one platform's.
type image struct {
	repository
	layers  []descriptor
	diffIDs []string
}

// platforms are architectures and the folders of their programs, as they are given.
type platforms [][2]string

func (p *platforms) String() string { return fmt.Sprint(*p) }

func (p *platforms) Set(value string) error {
	arch, dir, found := strings.Cut(value, "=")
	if !found {
		return fmt.Errorf("%q: wants ARCH=DIR", value)
	}
	*p = append(*p, [2]string{arch, dir})
	return nil
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func push(args []string) error {
	flags := flag.NewFlagSet("push", flag.ExitOnError)
	registry := flags.String("registry", "", "host:port")
	name := flags.String("name", "", "repository:tag")
	config := flags.String("config", "{}", "the image's runtime configuration, JSON")
	base := flags.String("base", "", "tar of the base layer")
	var platforms platforms
	flags.Var(&platforms, "platform", "ARCH=DIR, once or more")
	if err := flags.Parse(args); err != nil {
		return err
	}
	place, tag, found := strings.Cut(*name, ":")
	if !found {
		return fmt.Errorf("--name wants REPO:TAG")
	}
	repository := repository{*registry, place}
	var entries []descriptor
	for _, platform := range platforms {
		arch, dir := platform[0], platform[1]
		img := &image{repository: repository}
		if err := img.addLayers(dir, *base, flags.Args()); err != nil {
			return err
		}
		entry, err := img.finish(arch, json.RawMessage(*config))
		if err != nil {
			return err
		}
		entries = append(entries, entry)
	}
	list, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": listType, "manifests": entries,
	})
	if err != nil {
		return err
	}
	return repository.manifest(tag, listType, list)
}

func (img *image) addLayers(dir, base string, pairs []string) error {
	if base != "" {
		content, err := os.ReadFile(dir + "/" + base)
		if err != nil {
			return err
		}
		if err := img.addLayer(content); err != nil {
			return err
		}
	}
	var shared, own []string
	for _, pair := range pairs {
		if path.IsAbs(pair) {
			shared = append(shared, pair)
		} else {
			own = append(own, dir+"/"+pair)
		}
	}
	for _, pairs := range [][]string{shared, own} {
		if len(pairs) == 0 {
			continue
		}
		content, err := tarOf(pairs)
		if err != nil {
			return err
		}
		if err := img.addLayer(content); err != nil {
			return err
		}
	}
	return nil
}

// tarOf packs FILE=PATH pairs, executables all, with nothing of this machine in the headers.
func tarOf(pairs []string) ([]byte, error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	made := map[string]bool{}
	for _, pair := range pairs {
		file, target, found := strings.Cut(pair, "=")
		if !found {
			return nil, fmt.Errorf("%q: wants FILE=PATH", pair)
		}
		for _, dir := range parents(target) {
			if !made[dir] {
				made[dir] = true
				header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}
				if err := writer.WriteHeader(header); err != nil {
					return nil, err
				}
			}
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: target[1:], Mode: 0o755, Size: int64(len(content))}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(content); err != nil {
			return nil, err
		}
	}
	err := writer.Close()
	return out.Bytes(), err
}

func parents(target string) []string {
	var dirs []string
	for dir := path.Dir(target[1:]); dir != "."; dir = path.Dir(dir) {
		dirs = append([]string{dir}, dirs...)
	}
	return dirs
}

func (img *image) addLayer(content []byte) error {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(content); err != nil {
		return err
	}
	if err := writer.Close(); err != nil {
		return err
	}
	img.diffIDs = append(img.diffIDs, digest(content))
	layer, err := img.blob(layerType, packed.Bytes())
	img.layers = append(img.layers, layer)
	return err
}

// finish uploads the configuration and the manifest, and gives the entry of a list.
func (img *image) finish(arch string, runtime json.RawMessage) (descriptor, error) {
	platform := map[string]any{"architecture": arch, "os": "linux"}
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": runtime, "rootfs": map[string]any{"type": "layers", "diff_ids": img.diffIDs},
	})
	if err != nil {
		return descriptor{}, err
	}
	configBlob, err := img.blob(configType, config)
	if err != nil {
		return descriptor{}, err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": configBlob, "layers": img.layers,
	})
	if err != nil {
		return descriptor{}, err
	}
	entry := descriptor{MediaType: manifestType, Size: len(manifest), Digest: digest(manifest), Platform: platform}
	return entry, img.manifest(entry.Digest, manifestType, manifest)
}

// blob uploads content unless the registry has it.
func (r repository) blob(mediaType string, content []byte) (descriptor, error) {
	d := descriptor{MediaType: mediaType, Size: len(content), Digest: digest(content)}
	base := fmt.Sprintf("http://%s/v2/%s/blobs/", r.registry, r.name)
	head, err := http.Head(base + d.Digest)
	if err != nil {
		return d, err
	}
	head.Body.Close()
	if head.StatusCode == http.StatusOK {
		return d, nil
	}
	start, err := http.Post(base+"uploads/", "", nil)
	if err != nil {
		return d, err
	}
	start.Body.Close()
	location, err := start.Request.URL.Parse(start.Header.Get("Location"))
	if err != nil || start.StatusCode != http.StatusAccepted {
		return d, fmt.Errorf("upload refused: %s %v", start.Status, err)
	}
	query := location.Query()
	query.Set("digest", d.Digest)
	location.RawQuery = query.Encode()
	return d, put(location, "application/octet-stream", content)
}

func (r repository) manifest(reference, mediaType string, content []byte) error {
	address, err := url.Parse(fmt.Sprintf("http://%s/v2/%s/manifests/%s", r.registry, r.name, reference))
	if err != nil {
		return err
	}
	return put(address, mediaType, content)
}

func put(address *url.URL, mediaType string, content []byte) error {
	request, err := http.NewRequest(http.MethodPut, address.String(), bytes.NewReader(content))
	if err != nil {
		return err
	}
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

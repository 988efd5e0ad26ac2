package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"sync"
)

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func digestOf(h hash.Hash) string { return fmt.Sprintf("sha256:%x", h.Sum(nil)) }

// content is what a layer is made of: a tar that exists, or files and their paths in the image.
type content struct {
	tar   string
	files [][2]string
}

func (c content) names() []string {
	if c.tar != "" {
		return []string{c.tar}
	}
	var names []string
	for _, file := range c.files {
		names = append(names, file[0])
	}
	return names
}

// write writes the layer's tar, with nothing of this machine in the headers. All files are executable.
func (c content) write(out io.Writer) error {
	if c.tar != "" {
		return copyFile(out, c.tar)
	}
	writer := tar.NewWriter(out)
	made := map[string]bool{}
	for _, file := range c.files {
		source, target := file[0], file[1]
		for _, dir := range parents(target) {
			if !made[dir] {
				made[dir] = true
				header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}
				if err := writer.WriteHeader(header); err != nil {
					return err
				}
			}
		}
		info, err := os.Stat(source)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: target[1:], Mode: 0o755, Size: info.Size()}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if err := copyFile(writer, source); err != nil {
			return err
		}
	}
	return writer.Close()
}

func copyFile(out io.Writer, name string) error {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(out, in)
	return err
}

func parents(target string) []string {
	var dirs []string
	for dir := path.Dir(target[1:]); dir != "."; dir = path.Dir(dir) {
		dirs = append([]string{dir}, dirs...)
	}
	return dirs
}

// layers compresses each content once, whatever the number of images that share it.
type layers struct {
	dir   string
	mutex sync.Mutex
	made  map[string]*layer
}

type layer struct {
	once       sync.Once
	err        error
	file       string
	descriptor descriptor
	diffID     string

	mutex sync.Mutex
	home  string // a repository of the registry that has it
}

func (l *layers) of(c content) (*layer, error) {
	l.mutex.Lock()
	key := fmt.Sprint(c)
	made := l.made[key]
	if made == nil {
		made = &layer{file: fmt.Sprintf("%s/%d", l.dir, len(l.made))}
		l.made[key] = made
	}
	l.mutex.Unlock()
	made.once.Do(func() { made.err = made.compress(c) })
	return made, made.err
}

func (l *layer) compress(c content) error {
	file, err := os.Create(l.file)
	if err != nil {
		return err
	}
	defer file.Close()
	packed, plain := sha256.New(), sha256.New()
	compressor := gzip.NewWriter(io.MultiWriter(file, packed))
	if err := c.write(io.MultiWriter(compressor, plain)); err != nil {
		return err
	}
	if err := compressor.Close(); err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	l.descriptor = descriptor{MediaType: layerType, Size: info.Size(), Digest: digestOf(packed)}
	l.diffID = digestOf(plain)
	return nil
}

// upload uploads the layer, or mounts it from a repository that has it.
func (l *layer) upload(to client) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	err := to.blob(l.descriptor, l.home, func() (io.ReadCloser, error) { return os.Open(l.file) })
	if err == nil {
		l.home = to.repository
	}
	return err
}

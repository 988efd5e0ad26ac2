package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

const (
	configType   = "application/vnd.docker.container.image.v1+json"
	layerType    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	listType     = "application/vnd.docker.distribution.manifest.list.v2+json"
	searchPath   = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

type descriptor struct {
	MediaType string         `json:"mediaType"`
	Size      int64          `json:"size"`
	Digest    string         `json:"digest"`
	Platform  map[string]any `json:"platform,omitempty"`
}

// platform is an architecture and the folder of its programs.
type platform struct {
	arch, dir string
}

// recipe is one line of the list of images.
type recipe struct {
	line             string
	repository, tag  string
	entrypoint, base string
	command          string // instead of, or after, the entrypoint
	user             string // the number of the user of a container
	platforms        []platform
	pairs            []string // FILE=PATH
}

func parseRecipe(line string) (recipe, error) {
	r := recipe{line: line}
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	name := flags.String("name", "", "repository:tag")
	flags.StringVar(&r.entrypoint, "entrypoint", "", "the program that a container runs")
	flags.StringVar(&r.command, "command", "", "the default arguments, or the program if there is no entrypoint")
	flags.StringVar(&r.user, "user", "", "the number of the user that runs it")
	flags.StringVar(&r.base, "base", "", "tar of the base layer, below the folder of each platform")
	flags.Func("platform", "ARCH=DIR, once or more", func(value string) error {
		arch, dir, found := strings.Cut(value, "=")
		if !found {
			return fmt.Errorf("%q is not ARCH=DIR", value)
		}
		r.platforms = append(r.platforms, platform{arch, dir})
		return nil
	})
	if err := flags.Parse(strings.Fields(line)); err != nil {
		return r, err
	}
	var found bool
	if r.repository, r.tag, found = strings.Cut(*name, ":"); !found {
		return r, fmt.Errorf("--name %q is not REPO:TAG", *name)
	}
	r.pairs = flags.Args()
	for _, pair := range r.pairs {
		if !strings.Contains(pair, "=") {
			return r, fmt.Errorf("%q is not FILE=PATH", pair)
		}
	}
	return r, nil
}

// config returns how a container of the image runs.
func (r recipe) config() map[string]any {
	config := map[string]any{"Env": []string{searchPath}}
	if r.user != "" {
		config["User"] = r.user
	}
	if r.entrypoint != "" {
		config["Entrypoint"] = []string{r.entrypoint}
	}
	if r.command != "" {
		config["Cmd"] = []string{r.command}
	}
	return config
}

// contents returns what each layer is made of, from the bottom to the top. Files with absolute names
// are the same for all platforms, so they get a layer of their own.
func (r recipe) contents(dir string) []content {
	var layers []content
	if r.base != "" {
		layers = append(layers, content{tar: filepath.Join(dir, r.base)})
	}
	var shared, own content
	for _, pair := range r.pairs {
		file, target, _ := strings.Cut(pair, "=")
		if filepath.IsAbs(file) {
			shared.files = append(shared.files, [2]string{file, target})
		} else {
			own.files = append(own.files, [2]string{filepath.Join(dir, file), target})
		}
	}
	for _, c := range []content{shared, own} {
		if len(c.files) > 0 {
			layers = append(layers, c)
		}
	}
	return layers
}

// receipt returns the recipe with size and time of every file that it names: another file, or another
// recipe, gives another receipt.
func (r recipe) receipt() (string, error) {
	lines := []string{r.line}
	for _, p := range r.platforms {
		for _, c := range r.contents(p.dir) {
			for _, name := range c.names() {
				info, err := os.Stat(name)
				if err != nil {
					return "", err
				}
				lines = append(lines, fmt.Sprint(name, " ", info.Size(), " ", info.ModTime().UnixNano()))
			}
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// push uploads the images that the lines of the standard input describe, several at once. Those whose
// receipt is already in the folder of receipts are in the registry since an earlier run.
func push(args []string) error {
	flags := flag.NewFlagSet("push", flag.ExitOnError)
	registry := flags.String("registry", "", "host:port")
	receipts := flags.String("receipts", "", "folder that records what has been pushed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var recipes []recipe
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		r, err := parseRecipe(lines.Text())
		if err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		recipes = append(recipes, r)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(*receipts, "layers.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	layers := &layers{dir: scratch, made: map[string]*layer{}}
	return each(recipes, func(r recipe) error {
		err := r.pushOnce(client{*registry, r.repository}, layers, *receipts)
		if err != nil {
			err = fmt.Errorf("%s:%s: %w", r.repository, r.tag, err)
		}
		return err
	})
}

// each runs work for all recipes, as many at once as there are processors, and joins the errors.
func each(recipes []recipe, work func(recipe) error) error {
	var group sync.WaitGroup
	queue := make(chan recipe)
	failed := make(chan error, len(recipes))
	for range runtime.NumCPU() {
		group.Go(func() {
			for r := range queue {
				if err := work(r); err != nil {
					failed <- err
				}
			}
		})
	}
	for _, r := range recipes {
		queue <- r
	}
	close(queue)
	group.Wait()
	close(failed)
	var all []error
	for err := range failed {
		all = append(all, err)
	}
	return errors.Join(all...)
}

func (r recipe) pushOnce(to client, layers *layers, receipts string) error {
	receipt, err := r.receipt()
	if err != nil {
		return err
	}
	file := filepath.Join(receipts, strings.ReplaceAll(r.repository, "/", "_")+":"+r.tag)
	if old, err := os.ReadFile(file); err == nil && string(old) == receipt {
		return nil
	}
	if err := r.push(to, layers); err != nil {
		return err
	}
	fmt.Printf("pushed %s:%s\n", r.repository, r.tag)
	if err := os.WriteFile(file+".partial", []byte(receipt), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".partial", file)
}

// push uploads an image for each platform, and then the list of them.
func (r recipe) push(to client, layers *layers) error {
	var entries []descriptor
	for _, p := range r.platforms {
		entry, err := r.pushImage(to, layers, p)
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
	return to.manifest(r.tag, listType, list)
}

func (r recipe) pushImage(to client, layers *layers, p platform) (descriptor, error) {
	var uploaded []descriptor
	var diffIDs []string
	for _, c := range r.contents(p.dir) {
		l, err := layers.of(c)
		if err != nil {
			return descriptor{}, err
		}
		if err := l.upload(to); err != nil {
			return descriptor{}, err
		}
		uploaded = append(uploaded, l.descriptor)
		diffIDs = append(diffIDs, l.diffID)
	}
	config, err := json.Marshal(map[string]any{
		"architecture": p.arch, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": r.config(),
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	})
	if err != nil {
		return descriptor{}, err
	}
	configBlob := descriptor{MediaType: configType, Size: int64(len(config)), Digest: digest(config)}
	err = to.blob(configBlob, "", func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(string(config))), nil
	})
	if err != nil {
		return descriptor{}, err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": configBlob, "layers": uploaded,
	})
	if err != nil {
		return descriptor{}, err
	}
	entry := descriptor{
		MediaType: manifestType, Size: int64(len(manifest)), Digest: digest(manifest),
		Platform: map[string]any{"architecture": p.arch, "os": "linux"},
	}
	return entry, to.manifest(entry.Digest, manifestType, manifest)
}

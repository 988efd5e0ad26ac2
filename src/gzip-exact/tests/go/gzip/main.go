// Compresses standard input as Go programs do: `gzip LEVEL [CHUNK]`, writing CHUNK bytes at a time.
package main

import (
	"compress/gzip"
	"io"
	"log"
	"os"
	"strconv"
)

func main() {
	level, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	chunk := 32 * 1024
	if len(os.Args) > 2 {
		if chunk, err = strconv.Atoi(os.Args[2]); err != nil {
			log.Fatal(err)
		}
	}
	writer, err := gzip.NewWriterLevel(os.Stdout, level)
	if err != nil {
		log.Fatal(err)
	}
	// Without the interfaces that let io.Copy choose other sizes.
	in, out := struct{ io.Reader }{os.Stdin}, struct{ io.Writer }{writer}
	if _, err := io.CopyBuffer(out, in, make([]byte, chunk)); err != nil {
		log.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		log.Fatal(err)
	}
}

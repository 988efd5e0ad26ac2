// Compresses with klauspost/compress: `klauspost WRITER:LEVEL:CHUNK[:BLOCK]…`. WRITER is gzip or pgzip, CHUNK
// the number of bytes per write, BLOCK the block size of pgzip. Standard input is a sequence of contents,
// each after its length in four bytes, little-endian. Standard output is a sequence of streams in the same
// form: for each content one stream per argument.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/pgzip"
)

func main() {
	for {
		var length uint32
		err := binary.Read(os.Stdin, binary.LittleEndian, &length)
		if errors.Is(err, io.EOF) {
			return
		}
		content := make([]byte, length)
		if _, err := io.ReadFull(os.Stdin, content); err != nil {
			log.Fatal(err)
		}
		for _, how := range os.Args[1:] {
			packed, err := pack(content, how)
			if err != nil {
				log.Fatal(err)
			}
			length := binary.LittleEndian.AppendUint32(nil, uint32(len(packed)))
			if _, err := os.Stdout.Write(append(length, packed...)); err != nil {
				log.Fatal(err)
			}
		}
	}
}

func pack(content []byte, how string) ([]byte, error) {
	var out bytes.Buffer
	var level, chunk, block int
	var writer io.WriteCloser
	var err error
	if _, scan := fmt.Sscanf(how, "pgzip:%d:%d:%d", &level, &chunk, &block); scan == nil {
		parallel, level := pgzip.NewWriterLevel(&out, level)
		if level == nil {
			level = parallel.SetConcurrency(block, 2)
		}
		writer, err = parallel, level
	} else if _, scan := fmt.Sscanf(how, "pgzip:%d:%d", &level, &chunk); scan == nil {
		writer, err = pgzip.NewWriterLevel(&out, level)
	} else if _, scan := fmt.Sscanf(how, "gzip:%d:%d", &level, &chunk); scan == nil {
		writer, err = gzip.NewWriterLevel(&out, level)
	} else {
		err = scan
	}
	if err != nil {
		return nil, err
	}
	for len(content) > 0 {
		count := min(chunk, len(content))
		if _, err := writer.Write(content[:count]); err != nil {
			return nil, err
		}
		content = content[count:]
	}
	err = writer.Close()
	return out.Bytes(), err
}

// labtool is what the lab's upstream needs besides the upstream programs themselves:
//
//	labtool serve --root DIR --log FILE --port-file FILE   static files with Range, loopback only
//	labtool push --registry HOST:PORT --receipts DIR       images, several at once
//
// push reads one image per line from the standard input:
//
//	--name REPO:TAG [--entrypoint PATH] [--command WORD] --platform ARCH=DIR ... [--base TAR] [FILE=PATH ...]
//
// It makes an image for each platform, of gzip layers (an optional base tar, and the named files),
// and a manifest list of them all, and uploads them. Files and the base are below the folder of the
// platform; files with absolute names are the same for all, in a layer that they share.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("labtool: the first argument is serve or push")
	}
	var err error
	switch os.Args[1] {
	case "serve":
		err = serve(os.Args[2:])
	case "push":
		err = push(os.Args[2:])
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err != nil {
		log.Fatalf("labtool %s: %v", os.Args[1], err)
	}
}

// serve answers on a free loopback port, and writes the port down once it listens.
func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	root := flags.String("root", "", "folder to serve")
	logFile := flags.String("log", "", "access log")
	portFile := flags.String("port-file", "", "where the port is written")
	if err := flags.Parse(args); err != nil {
		return err
	}
	out, err := os.OpenFile(*logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	access := log.New(out, "", log.LstdFlags)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	files := http.FileServer(http.Dir(*root))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		access.Printf("%s %s %s", r.Method, r.URL.Path, r.Header.Get("Range"))
		files.ServeHTTP(w, r)
	})
	port := listener.Addr().(*net.TCPAddr).Port
	if err := os.WriteFile(*portFile, fmt.Appendf(nil, "%d\n", port), 0o644); err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}

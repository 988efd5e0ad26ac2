// Package ext has the types that Traefik's open-source edition embeds and leaves empty. They are a module of their own inside the
// repository, which the Go module proxy does not have.
package ext

type (
	HTTP   struct{}
	Router struct{}
)

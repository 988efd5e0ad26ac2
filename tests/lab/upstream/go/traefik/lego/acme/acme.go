// Package acme and the packages beside it have what Traefik names of the ACME client lego, and no more. The client has the SDKs of
// 180 providers of DNS, and the Go module proxy does not have two of these. Behind an air gap no certificate comes from ACME. Every
// call fails.
package acme

import "errors"

// ErrLeftOut is the error of every call.
var ErrLeftOut = errors.New("the lab's Traefik is built without ACME")

type (
	Account         struct{}
	ExtendedAccount struct {
		Account
		Location string
	}
)

package certificate

import (
	"context"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certcrypto"
)

type (
	Certifier     struct{}
	ObtainRequest struct {
		Domains, EmailAddresses  []string
		Bundle, EnableCommonName bool
		Profile, PreferredChain  string
		KeyType                  certcrypto.KeyType
	}
	RenewOptions struct {
		EmailAddresses           []string
		Bundle, EnableCommonName bool
		Profile, PreferredChain  string
	}
	Resource struct {
		ID                      string
		Domains                 []string
		PrivateKey, Certificate []byte
	}
)

func (*Certifier) Obtain(context.Context, ObtainRequest) (*Resource, error) {
	return nil, acme.ErrLeftOut
}

func (*Certifier) Renew(context.Context, Resource, *RenewOptions) (*Resource, error) {
	return nil, acme.ErrLeftOut
}

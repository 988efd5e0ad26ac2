package registration

import (
	"context"

	"github.com/go-acme/lego/v5/acme"
)

type (
	Registrar          struct{}
	RegisterOptions    struct{ TermsOfServiceAgreed bool }
	RegisterEABOptions struct {
		TermsOfServiceAgreed bool
		Kid, HmacEncoded     string
	}
)

func (*Registrar) Register(context.Context, RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrLeftOut
}

func (*Registrar) RegisterWithExternalAccountBinding(context.Context, RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrLeftOut
}

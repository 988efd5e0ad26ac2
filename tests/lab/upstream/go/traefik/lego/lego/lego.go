package lego

import (
	"crypto/x509"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/go-acme/lego/v5/challenge/tlsalpn01"
	"github.com/go-acme/lego/v5/registration"
)

const DirectoryURLLetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

type (
	Config struct {
		CADirURL, UserAgent string
		HTTPClient          *http.Client
		Certificate         struct{ Timeout time.Duration }
	}
	Challenges struct{}
	Client     struct {
		Certificate  *certificate.Certifier
		Challenge    *Challenges
		Registration *registration.Registrar
	}
)

func NewConfig(any) *Config { return &Config{} }

func NewClient(*Config) (*Client, error) { return nil, acme.ErrLeftOut }

func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, acme.ErrLeftOut }

func (*Challenges) SetDNS01Provider(challenge.Provider, ...dns01.ChallengeOption) error {
	return acme.ErrLeftOut
}

func (*Challenges) SetHTTP01Provider(challenge.Provider, ...http01.ChallengeOption) error {
	return acme.ErrLeftOut
}

func (*Challenges) SetTLSALPN01Provider(challenge.Provider, ...tlsalpn01.ChallengeOption) error {
	return acme.ErrLeftOut
}

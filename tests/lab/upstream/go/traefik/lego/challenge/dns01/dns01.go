package dns01

import (
	"strings"
	"time"
)

type (
	Client          struct{}
	Options         struct{ RecursiveNameservers []string }
	ChallengeOption struct{}
)

func NewClient(*Options) *Client                                              { return nil }
func SetDefaultClient(*Client)                                                {}
func CondOptions(bool, ...ChallengeOption) (option ChallengeOption)           { return }
func DisableAuthoritativeNssPropagationRequirement() (option ChallengeOption) { return }
func DisableRecursiveNSsPropagationRequirement() (option ChallengeOption)     { return }
func PropagationWait(time.Duration, bool) (option ChallengeOption)            { return }
func UnFqdn(name string) string                                               { return strings.TrimSuffix(name, ".") }

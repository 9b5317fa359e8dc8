package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Agents are the hexadecimal SHA-256 digests of the agent programs by architecture (amd64, arm64); "" is any.
type Agents map[string]string

// UserData returns the boot script for the machines of a cluster, or for the one machine of rank *own if own is not
// nil. It fails with a *cloud.Error of kind Invalid.
func (a Agents) UserData(name string, spec cloud.LaunchSpec, arch string, own *int,
	environment map[string]string) ([]byte, error) {
	agent, ok := a[arch]
	if !ok {
		if agent, ok = a[""]; !ok {
			return nil, cloud.Errorf(name, cloud.Invalid, CodeBadSpec,
				"this deployment has no agent for %s machines", arch)
		}
	}
	data, err := bootstrap.Script(bootstrap.Machine{
		Cloud: name, Endpoint: spec.Bootstrap.Endpoint, Tokens: spec.Bootstrap.Tokens, SharedToken: spec.Bootstrap.Any,
		OnlyRank: own, SHA256: agent, Environment: environment,
	})
	if err != nil {
		return nil, cloud.Errorf(name, cloud.Invalid, CodeBadSpec, "%v", err)
	}
	return data, nil
}

// ErrAgents means that a list of agents cannot be parsed.
var ErrAgents = errors.New("agents")

// ParseAgents reads the digests of agents from their storage keys: KEY for machines of any architecture, or
// ARCH=KEY,ARCH=KEY. One part of a key is the SHA-256 of the program: agent/<sha256>/tradewind-agent.
func ParseAgents(text string) (Agents, error) {
	agents := Agents{}
	for part := range strings.SplitSeq(text, ",") {
		arch, key, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			arch, key = "", arch
		}
		i := slices.IndexFunc(strings.Split(key, "/"), isDigest)
		if i < 0 {
			return nil, fmt.Errorf("%w: key %q contains no SHA-256", ErrAgents, key)
		}
		if _, twice := agents[arch]; twice {
			return nil, fmt.Errorf("%w: duplicate architecture %q", ErrAgents, arch)
		}
		agents[arch] = strings.Split(key, "/")[i]
	}
	return agents, nil
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}

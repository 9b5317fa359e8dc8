package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Agents are the hexadecimal SHA-256 digests of the agent programs by architecture (amd64, arm64); "" is any.
type Agents map[string]string

// Archs returns the architectures that have an agent, sorted; nil if an agent is for any.
func (a Agents) Archs() []string {
	if _, some := a[""]; some {
		return nil
	}
	return slices.Sorted(maps.Keys(a))
}

// ArchsOn returns the architectures for each of the clouds; nil if there is an agent for any architecture.
func (a Agents) ArchsOn(clouds []string) map[string][]string {
	archs := a.Archs()
	if archs == nil {
		return nil
	}
	on := make(map[string][]string, len(clouds))
	for _, c := range clouds {
		on[c] = archs
	}
	return on
}

// UserData returns the boot script for the machines of a cluster, or for the one machine of rank *own if own is not
// nil. It fails with a *cloud.Error: of kind Capacity for the type in every
// region if there is no agent for its architecture, otherwise of kind Invalid.
func (a Agents) UserData(name string, spec cloud.LaunchSpec, arch string, own *int,
	environment map[string]string) ([]byte, error) {
	agent, ok := a[arch]
	if !ok {
		if agent, ok = a[""]; !ok {
			return nil, NoAgent(name, arch)
		}
	}
	data, err := bootstrap.Script(bootstrap.Machine{
		Cloud: name, Endpoint: spec.Bootstrap.Endpoint, Tokens: spec.Bootstrap.Tokens, SharedToken: spec.Bootstrap.Any,
		OnlyRank: own, SHA256: agent, Environment: environment, Mailbox: spec.Bootstrap.Mailbox,
		Program: spec.Bootstrap.Programs[agent],
	})
	if err != nil {
		return nil, cloud.Errorf(name, cloud.Invalid, CodeBadSpec, "%v", err)
	}
	return data, nil
}

// NoAgent refuses a machine type. It is not the task's fault: the broker can plan another type.
func NoAgent(name, arch string) error {
	err := cloud.Errorf(name, cloud.Capacity, codeNoAgent,
		"the broker has no agent for %s machines; `make agent` builds it, and the broker reads it when it starts", arch)
	err.Scope = cloud.ScopeType
	return err
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

package cloudkit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// ErrNoAgents says that the agent's programs for machines are not there.
var ErrNoAgents = errors.New("the agent's program for bought machines is not there")

// Architectures of machines.
var architectures = []string{"amd64", "arm64"}

// AgentFolders are where the agent's programs are looked for when no folder is named: beside this program, and where
// `make agent` puts them in a clone.
func AgentFolders() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	beside := filepath.Dir(self)
	return []string{filepath.Join(beside, "agent"), filepath.Join(beside, "..", "dist", "agent")}
}

// Programs are the files of the agent's programs, by SHA-256.
type Programs map[string]string

// FindAgents looks for the agent's programs, ARCH/tradewind-agent, in the first folder that has one. It fails with
// ErrNoAgents where none has.
func FindAgents(folders ...string) (driver.Agents, Programs, error) {
	for _, folder := range folders {
		agents, programs := driver.Agents{}, Programs{}
		for _, arch := range architectures {
			file := filepath.Join(folder, arch, "tradewind-agent")
			sum, err := digest(file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("agent: %w", err)
			}
			agents[arch], programs[sum] = sum, file
		}
		if len(agents) > 0 {
			return agents, programs, nil
		}
	}
	return nil, nil, fmt.Errorf("%w: no ARCH/tradewind-agent in %v; `make agent` builds it into dist/agent",
		ErrNoAgents,
		folders)
}

func digest(file string) (string, error) {
	f, err := os.Open(file) //nolint:gosec // the program that is looked for
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

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
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

// ErrNoAgents means that the folders have no agent program for machines.
var ErrNoAgents = errors.New("the agent's program for machines is missing")

// Architectures of machines.
var architectures = []string{"amd64", "arm64"}

// AgentFolders returns the folders where FindAgents looks by default: those of an archive, of an installed package, of
// `make agent` in a clone of the repository, and of the image, which ko builds.
func AgentFolders() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	beside := filepath.Dir(self)
	folders := []string{
		filepath.Join(beside, "agent"), filepath.Join(beside, "..", "lib", "tradewind", "agent"),
		filepath.Join(beside, "..", "dist", "agent"),
	}
	if data := os.Getenv("KO_DATA_PATH"); data != "" {
		folders = append(folders, filepath.Join(data, "agent"))
	}
	return folders
}

// Programs are the files that machines download from the broker.
type Programs struct {
	Files    map[string]string // by SHA-256
	Mounters map[string]string // SHA-256 of rclone, by architecture; machines without one cannot mount
}

// FindAgents looks for the agent's programs, ARCH/tradewind-agent, in the first folder that has one, and for
// ARCH/rclone next to them, which `make rclone` builds. It returns ErrNoAgents if no folder has an agent.
func FindAgents(folders ...string) (driver.Agents, Programs, error) {
	for _, folder := range folders {
		agents, programs := driver.Agents{}, Programs{map[string]string{}, map[string]string{}}
		for _, arch := range architectures {
			for name, of := range map[string]map[string]string{"tradewind-agent": agents, "rclone": programs.Mounters} {
				file := filepath.Join(folder, arch, name)
				sum, err := digest(file)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return nil, Programs{}, fmt.Errorf("%s: %w", name, err)
				}
				of[arch], programs.Files[sum] = sum, file
			}
		}
		if len(agents) > 0 {
			return agents, programs, nil
		}
	}
	return nil, Programs{}, fmt.Errorf("%w: no ARCH/tradewind-agent in %s; packages have it, and `make agent` builds "+
		"it into dist/agent in a clone of the repository", ErrNoAgents, strings.Join(folders, " or "))
}

func digest(file string) (string, error) {
	f, err := os.Open(file) //nolint:gosec // the program to find
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

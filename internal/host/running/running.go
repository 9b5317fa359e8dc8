// Package running finds the broker that uses a state folder on this computer. It is separate from internal/host so that
// a program that only calls a broker does not link one.
package running

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// File is the file of a state folder that describes its running broker; TokenFile has the user's token.
const (
	File      = "running.json"
	TokenFile = "token"
)

// Broker is a broker that uses a state folder.
type Broker struct {
	URL       string    `json:"url"`
	PID       int       `json:"pid"`
	Started   time.Time `json:"started"`
	TimeScale float64   `json:"timeScale"`
	Clouds    []string  `json:"clouds,omitempty"`    // on which it buys
	Archs     []string  `json:"archs,omitempty"`     // of machines for which it has an agent; empty means any
	PublicURL string    `json:"publicUrl,omitempty"` // at which bought machines reach it
	// Limit is what it may have of bought machines at the same time.
	Limit apitypes.Bought `json:"limit,omitzero"`
	Token string          `json:"-"`
}

// DefaultState returns the user's state folder: $TRADEWIND_STATE, or tradewind in the user's state
// directory.
func DefaultState() string {
	if dir := os.Getenv("TRADEWIND_STATE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "tradewind")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "tradewind")
	}
	return ".tradewind"
}

// Find returns the broker that uses a state folder ("" is DefaultState), and whether there is one.
func Find(dir string) (Broker, bool, error) {
	if dir == "" {
		dir = DefaultState()
	}
	body, err := os.ReadFile(filepath.Join(dir, File)) //nolint:gosec // the user's own folder
	if errors.Is(err, fs.ErrNotExist) {
		return Broker{}, false, nil
	}
	if err != nil {
		return Broker{}, false, fmt.Errorf("state folder: %w", err)
	}
	var r Broker
	if err := json.Unmarshal(body, &r); err != nil {
		return Broker{}, false, fmt.Errorf("%s: %w", filepath.Join(dir, File), err)
	}
	if !alive(r) {
		return Broker{}, false, nil
	}
	token, err := os.ReadFile(filepath.Join(dir, TokenFile)) //nolint:gosec // likewise
	if err != nil {
		return Broker{}, false, fmt.Errorf("state folder: %w", err)
	}
	r.Token = strings.TrimSpace(string(token))
	return r, true, nil
}

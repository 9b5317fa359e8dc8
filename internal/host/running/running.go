// Package running finds the broker that works on a state folder of this computer. It is apart from internal/host so that a
// program which only calls a broker does not link one.
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
)

// File is the file of a state folder that says who works on it, TokenFile the one with the user's token.
const (
	File      = "running.json"
	TokenFile = "token"
)

// Broker is one that works on a state folder.
type Broker struct {
	URL       string    `json:"url"`
	PID       int       `json:"pid"`
	Started   time.Time `json:"started"`
	TimeScale float64   `json:"timeScale"`
	Clouds    []string  `json:"clouds,omitempty"`    // that are bought on
	PublicURL string    `json:"publicUrl,omitempty"` // where bought machines reach it
	Token     string    `json:"-"`
}

// DefaultState is the state folder of the user: $TRADEWIND_STATE, or tradewind below the user's
// state folder.
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

// Find says who works on a state folder, "" being DefaultState. The bool is false when nobody does.
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

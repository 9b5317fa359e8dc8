package localfiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// RunningFile is the file of a state folder that describes its running broker; TokenFile has the user's token.
const (
	RunningFile = "running.json"
	TokenFile   = "token"
)

// Running is a broker that uses a state folder.
type Running struct {
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

// FindRunning returns the broker that uses a state folder ("" is DefaultState), and whether there is one.
func FindRunning(dir string) (Running, bool, error) {
	if dir == "" {
		dir = DefaultState()
	}
	body, err := os.ReadFile(filepath.Join(dir, RunningFile)) //nolint:gosec // the user's own folder
	if errors.Is(err, fs.ErrNotExist) {
		return Running{}, false, nil
	}
	if err != nil {
		return Running{}, false, fmt.Errorf("state folder: %w", err)
	}
	var r Running
	if err := json.Unmarshal(body, &r); err != nil {
		return Running{}, false, fmt.Errorf("%s: %w", filepath.Join(dir, RunningFile), err)
	}
	if !alive(r) {
		return Running{}, false, nil
	}
	token, err := os.ReadFile(filepath.Join(dir, TokenFile)) //nolint:gosec // likewise
	if err != nil {
		return Running{}, false, fmt.Errorf("state folder: %w", err)
	}
	r.Token = strings.TrimSpace(string(token))
	return r, true, nil
}

// alive checks a broker's health: the file of a broker that was killed names a port on which nothing, or another
// program, listens.
func alive(r Running) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/healthz", http.NoBody)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close() //nolint:errcheck // read only
	return res.StatusCode == http.StatusOK
}

package host

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
)

// DefaultState returns the user's state folder (see package running).
func DefaultState() string { return localfiles.DefaultState() }

// state is the folder on disk:
//
//	tradewind.db   records and queues
//	token          the user token, mode 0600
//	key            signs agents' tokens, mode 0600
//	clock.json     the virtual time
//	running.json   the running broker, while there is one
//	clouds.json    settings of the clouds that were added (internal/cloudkit)
//	deployment     part of the name of bought machines
//	catalog.snapshot  what the clouds sell, by their last answers
//	bought.json    clouds on which machines may be left
//	objects/       outputs, checkpoints, packs of code and files, and the agent's programs for bought machines
//	logs/          output of tasks
//	machines/      local machines
type state string

func (s state) path(parts ...string) string {
	return filepath.Join(append([]string{string(s)}, parts...)...)
}

// Fresh reports whether no broker has used a state folder yet and no cloud was added to it.
func Fresh(dir string) bool {
	for _, made := range []string{"objects", "clouds.json"} {
		if _, err := os.Stat(state(dir).path(made)); err == nil {
			return false
		}
	}
	return true
}

// openState creates the folder if it is missing; only its owner can read it.
func openState(dir string) (state, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("state folder: %w", err)
	}
	s := state(abs)
	for _, d := range []string{"", "objects", "logs", "machines"} {
		if err := os.MkdirAll(s.path(d), 0o700); err != nil {
			return "", fmt.Errorf("state folder: %w", err)
		}
	}
	return s, nil
}

// secretBytes is 256 bits.
const secretBytes = 32

// secret reads a secret file, and creates it if it is missing.
func (s state) secret(name string) ([]byte, error) {
	body, err := os.ReadFile(s.path(name))
	if err == nil && len(body) >= secretBytes {
		return []byte(strings.TrimSpace(string(body))), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	text, err := newSecret()
	if err != nil {
		return nil, err
	}
	return text, s.write(name, append(text, '\n'))
}

// newSecret returns a new random secret as text.
func newSecret() ([]byte, error) {
	raw := make([]byte, secretBytes)
	if _, err := rand.Read(raw); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	return []byte(hex.EncodeToString(raw)), nil
}

// write replaces a file atomically.
func (s state) write(name string, body []byte) error {
	if err := files.Write(s.path(name), 0o600, body); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	return nil
}

func (s state) readJSON(name string, into any) (bool, error) {
	body, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("state folder: %w", err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return false, fmt.Errorf("%s: %w", s.path(name), err)
	}
	return true, nil
}

func (s state) writeJSON(name string, v any) error {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return s.write(name, append(body, '\n'))
}

// clockMark is the virtual time at a moment of wall time. With it, virtual time never runs backwards in a
// state folder, although records made in compressed time are ahead of wall time.
type clockMark struct {
	Virtual time.Time `json:"virtual"`
	Wall    time.Time `json:"wall"`
}

// markEvery is the interval at which the mark is written. After a crash, the actual virtual time may have been later
// than the mark by that interval.
const markEvery = 500 * time.Millisecond

// startOfTime returns the virtual time at a wall time. In real time, both are the same. In compressed time it is the
// virtual time at which the last broker stopped, because compressed time does not pass while no broker runs.
func (s state) startOfTime(wall time.Time, scale float64) (time.Time, error) {
	var mark clockMark
	found, err := s.readJSON("clock.json", &mark)
	if err != nil || !found {
		return wall, err
	}
	since := min(max(wall.Sub(mark.Wall), 0), 2*markEvery)
	if scale > 0 {
		since = time.Duration(float64(since) / scale)
	}
	if at := mark.Virtual.Add(since); at.After(wall) {
		return at, nil
	}
	return wall, nil
}

// lastWorked returns the time at which a broker last worked on the folder. It is zero if none has, or if the file is
// unreadable.
func (s state) lastWorked() time.Time {
	var mark clockMark
	_, _ = s.readJSON("clock.json", &mark) // startOfTime reports the error
	return mark.Wall
}

// Find returns the broker that uses a state folder, and whether there is one.
func Find(dir string) (Running, bool, error) { return localfiles.FindRunning(dir) }

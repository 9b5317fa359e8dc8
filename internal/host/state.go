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
	"github.com/tradewind-broker/tradewind/internal/host/running"
)

// DefaultState is the state folder of the user (see package running).
func DefaultState() string { return running.DefaultState() }

// state is the folder on disk:
//
//	tradewind.db   records and queues
//	token          of the user, mode 0600
//	key            that agents' tokens are signed with, mode 0600
//	clock.json     where virtual time stands
//	running.json   who works on the folder, while someone does
//	clouds.json    settings of the clouds that were added (internal/cloudkit)
//	deployment     what the name of bought machines is made of
//	catalog.snapshot  what the clouds that are bought on sell, as they said last
//	bought.json    on which clouds machines may be left
//	objects/       outputs, checkpoints, packs of code and files, and the agent's programs for bought machines
//	logs/          what tasks print
//	machines/      local machines
type state string

func (s state) path(parts ...string) string {
	return filepath.Join(append([]string{string(s)}, parts...)...)
}

// Fresh says whether no broker has worked on a state folder yet, and no cloud was added to it.
func Fresh(dir string) bool {
	for _, made := range []string{"objects", "clouds.json"} {
		if _, err := os.Stat(state(dir).path(made)); err == nil {
			return false
		}
	}
	return true
}

// openState makes the folder, readable by its owner alone.
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

// secret reads a secret file, or makes one.
func (s state) secret(name string) ([]byte, error) {
	body, err := os.ReadFile(s.path(name))
	if err == nil && len(body) >= secretBytes {
		return []byte(strings.TrimSpace(string(body))), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	raw := make([]byte, secretBytes)
	if _, err := rand.Read(raw); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	text := []byte(hex.EncodeToString(raw))
	return text, s.write(name, append(text, '\n'))
}

// write replaces a file in one step, so that a reader sees the old one or the new one.
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

// clockMark is where virtual time stood at a moment of the wall's, so that it never runs backwards in one
// state folder: what was recorded in compressed time lies ahead of the wall.
type clockMark struct {
	Virtual time.Time `json:"virtual"`
	Wall    time.Time `json:"wall"`
}

// markEvery is how often the mark is written; a host that was killed may have been that much further.
const markEvery = 500 * time.Millisecond

// startOfTime is when virtual time begins at a moment of the wall's: there, or where it stood.
// While nobody works on the folder, compressed time stands still.
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

// lastWorked is when a broker last worked on the folder; the zero time where none has, or where that cannot be read.
func (s state) lastWorked() time.Time {
	var mark clockMark
	_, _ = s.readJSON("clock.json", &mark) // whoever reads the time from it tells of the error
	return mark.Wall
}

// Find says who works on a state folder. The bool is false when nobody does.
func Find(dir string) (Running, bool, error) { return running.Find(dir) }

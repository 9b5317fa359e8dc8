package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// memoryName is the file in a machine's folder that records its pool and its name. It contains the token, so only its
// owner can read it.
const memoryName = "joined.json"

// state is the state of a machine that survives a restart of the process.
type state struct {
	Broker  string             `json:"broker"`
	Pool    string             `json:"pool"`
	Machine string             `json:"machine"`
	Token   apitypes.PoolToken `json:"token"`
}

// loadState reads the memory in a folder. It returns an empty one if the file is missing or belongs to another pool,
// machine or broker.
func loadState(dir, broker, pool, machine string) (state, error) {
	fresh := state{Broker: broker, Pool: pool, Machine: machine}
	b, err := os.ReadFile(filepath.Join(dir, memoryName)) //nolint:gosec // the machine's own folder
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return fresh, fmt.Errorf("pool: %w", err)
	}
	var m state
	if json.Unmarshal(b, &m) != nil || m.Broker != broker || m.Pool != pool || m.Machine != machine {
		return fresh, nil
	}
	return m, nil
}

// keep writes the memory atomically.
func (m state) keep(dir string) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	if err := files.Write(filepath.Join(dir, memoryName), 0o600, append(b, '\n')); err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	return nil
}

// removeState removes the memory of a machine that was removed from its pool.
func removeState(dir string) error {
	if err := os.Remove(filepath.Join(dir, memoryName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pool: %w", err)
	}
	return nil
}

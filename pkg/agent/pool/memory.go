package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tradewind-broker/tradewind/internal/atomicfile"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// memoryName is the file in a machine's folder that says as what it has joined. It holds the token: its owner alone
// reads it.
const memoryName = "joined.json"

// memory is what a machine knows of itself from one process to the next.
type memory struct {
	Broker  string             `json:"broker"`
	Pool    string             `json:"pool"`
	Machine string             `json:"machine"`
	Token   apitypes.PoolToken `json:"token"`
}

// recall reads the memory in a folder; it is empty where there is none, or where it is of another pool, machine or
// broker.
func recall(dir, broker, pool, machine string) (memory, error) {
	fresh := memory{Broker: broker, Pool: pool, Machine: machine}
	b, err := os.ReadFile(filepath.Join(dir, memoryName)) //nolint:gosec // the machine's own folder
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return fresh, fmt.Errorf("pool: %w", err)
	}
	var m memory
	if json.Unmarshal(b, &m) != nil || m.Broker != broker || m.Pool != pool || m.Machine != machine {
		return fresh, nil
	}
	return m, nil
}

// keep writes the memory: all of it or what was there before.
func (m memory) keep(dir string) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, memoryName), 0o600, append(b, '\n')); err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	return nil
}

// forget removes the memory of a machine that is no longer of its pool.
func forget(dir string) error {
	if err := os.Remove(filepath.Join(dir, memoryName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pool: %w", err)
	}
	return nil
}

package wire

import (
	"fmt"
	"log/slog"
	"strconv"
)

// Secrets are values by name that print as how many there are, whichever way they are printed. Only JSON has them.
type Secrets map[string]string

// String implements fmt.Stringer.
func (s Secrets) String() string { return strconv.Itoa(len(s)) + " secrets" }

// Format implements fmt.Formatter.
func (s Secrets) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue implements slog.LogValuer.
func (s Secrets) LogValue() slog.Value { return slog.StringValue(s.String()) }

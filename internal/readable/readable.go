// Package readable formats amounts, money and durations for people, and shortens long messages.
package readable

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Amount formats an amount of a resource with its unit: "8 vCPUs", "64 GiB of memory", "2 A100".
func Amount(name string, v float64) string {
	switch name {
	case apitypes.VCPUs:
		return fmt.Sprintf("%g vCPUs", v)
	case apitypes.MemoryGiB:
		return fault.Number(v) + " GiB of memory"
	case apitypes.USDPerHour:
		return fmt.Sprintf("%.4g USD/h", v)
	case apitypes.USDPerMonth:
		return USD(v) + " USD a month"
	default:
		return fmt.Sprintf("%g %s", v, name)
	}
}

// USD formats an amount of money: with cents from one dollar up, with hundredths of a cent below.
func USD(v float64) string {
	const least = 0.0001
	switch abs := math.Abs(v); {
	case v == 0 || abs >= 0.995:
		return fmt.Sprintf("%.2f", v)
	case v > 0 && v < least/2:
		return fmt.Sprintf("<%.4f", least)
	default:
		return fmt.Sprintf("%.4f", v)
	}
}

// MaxClip is the number of bytes of a machine's message that are kept.
const MaxClip = 256

// ClipMessage shortens a message to the maximum length.
func ClipMessage(s string) string { return strings.ToValidUTF8(s[:min(len(s), MaxClip)], "") }

// maxFailure is the number of bytes of a failure message that are kept. Messages are sent in events, whose size is
// limited.
const maxFailure = 8 << 10

// ClipFailure shortens a failure message to the maximum length.
func ClipFailure(s string) string {
	if len(s) <= maxFailure {
		return s
	}
	return strings.ToValidUTF8(s[:maxFailure], "") + "…"
}

// Rounded rounds a duration for display.
func Rounded(d time.Duration) time.Duration {
	switch {
	case d > time.Hour:
		return d.Round(time.Minute)
	case d > time.Minute:
		return d.Round(time.Second)
	default:
		return d.Round(time.Millisecond)
	}
}

// Times formats how often something happened: once, 2 times.
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

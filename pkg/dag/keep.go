package dag

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// KeepForever keeps finished jobs until a user removes them.
const KeepForever time.Duration = -1

// MinKeep is the shortest time that a finished job is kept: agents and clients may still ask for it.
const MinKeep = time.Hour

// forever is KeepForever as text.
const forever = "forever"

// ParseKeep reads the time for which finished jobs are kept, such as 90d, or "forever". For an empty text it returns
// 0, which means that no time is set.
func ParseKeep(s string) (time.Duration, error) {
	switch s {
	case "":
		return 0, nil
	case forever:
		return KeepForever, nil
	}
	d, err := ParseDuration(s)
	if err != nil {
		return 0, err
	}
	return d, checkRetention(d)
}

// FormatKeep writes what ParseKeep reads, whole days as days.
func FormatKeep(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return ""
	case d < 0:
		return forever
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	}
	return FormatDuration(d)
}

// checkRetention checks Job.Keep.
func checkRetention(d time.Duration) error {
	switch {
	case d == KeepForever:
		return nil
	case d < MinKeep:
		return fault.New("must be at least "+FormatDuration(MinKeep), "90d, for example; or forever")
	}
	return checkDuration(d)
}

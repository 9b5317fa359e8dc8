package scheduler

import "time"

// Window is a part of each day in which nodes are available.
type Window struct {
	From, To time.Duration // since midnight; From after To (22h to 6h) spans midnight
	Zone     *time.Location
}

// Open reports whether now is in the window, and until when.
func (w Window) Open(now time.Time) (until time.Time, open bool) {
	local := now.In(w.Zone)
	midnight := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, w.Zone)
	clock := func(day int, d time.Duration) time.Time {
		return time.Date(midnight.Year(), midnight.Month(), midnight.Day()+day, 0, 0, int(d/time.Second), 0, w.Zone)
	}
	for day := -1; day <= 0; day++ {
		from, to := clock(day, w.From), clock(day, w.To)
		if w.To <= w.From {
			to = clock(day+1, w.To)
		}
		if !local.Before(from) && local.Before(to) {
			return to, true
		}
	}
	return time.Time{}, false
}

package shared

import "math"

// anywhere is the value of most with which fit never gives up.
const anywhere = 1 << 40

// scanned is the number of points that count as one step of the search.
const scanned = 8

// point is a time at which the load of an instance changes. The load holds until the next point; before the first and
// after the last it is zero.
type point struct {
	at   float64
	used need
}

// timeline is the load of one instance over time.
type timeline []point

// later returns from + hours so that the difference is not below hours, whichever way it is computed.
func later(from, hours float64) float64 {
	to := from + hours
	for to-from < hours {
		to = math.Nextafter(to, math.Inf(1))
	}
	return to
}

// fit returns the earliest time, not before from, at which an instance has room for the given hours. before is the
// index of the last point at or before that time, -1 if there is none. fit looks at no more than most points. left is
// how many of them remain; it is negative if fit gave up.
func (l timeline) fit(from, hours float64, holds, has need, most int) (at float64, before, left int) {
	i := l.before(from)
	room := need{has[0] - holds[0], has[1] - holds[1], has[2] - holds[2]}
	at = from
search:
	for most >= 0 {
		if i >= 0 && !l[i].used.within(room) {
			i++ // the last point has no load
			at = l[i].at
			most--
			continue
		}
		end := at + hours
		for j := i + 1; j < len(l) && l[j].at < end; j++ {
			most--
			if !l[j].used.within(room) {
				i, at = j+1, l[j+1].at
				continue search
			}
		}
		break
	}
	return at, i, most
}

// before returns the index of the last point at or before a time, or -1. It is fast near the end.
func (l timeline) before(at float64) int {
	i := len(l) - 1
	for stop := max(i-8, -1); i > stop; i-- {
		if l[i].at <= at {
			return i
		}
	}
	low, high := -1, i // l[low] is at or before, l[high+1] after
	for low < high {
		if mid := (low + high + 1) / 2; l[mid].at <= at {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// add adds a load from one time to another; before is the index that fit returned.
func (l timeline) add(before int, from, to float64, holds need) timeline {
	if to <= from {
		return l
	}
	first := before
	if before < 0 || l[before].at < from {
		first = before + 1
		used := need{}
		if before >= 0 {
			used = l[before].used
		}
		l = l.insert(first, point{from, used})
	}
	i := first
	for ; i < len(l) && l[i].at < to; i++ {
		l[i].used = need{l[i].used[0] + holds[0], l[i].used[1] + holds[1], l[i].used[2] + holds[2]}
	}
	if i == len(l) || l[i].at > to {
		u := l[i-1].used
		l = l.insert(i, point{to, need{u[0] - holds[0], u[1] - holds[1], u[2] - holds[2]}})
	}
	return l
}

func (l timeline) insert(i int, p point) timeline {
	l = append(l, point{})
	copy(l[i+1:], l[i:])
	l[i] = p
	return l
}

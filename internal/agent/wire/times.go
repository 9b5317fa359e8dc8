package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LogMark is the time of a part of a log: the agent read the data that begins at byte Offset from the task at At.
type LogMark struct {
	Offset int64
	At     time.Time // in milliseconds
}

// MaxLogMarks is the maximum number of marks of one piece of a log.
const MaxLogMarks = 256

// ErrTimes means that a text is not the marks of a piece of a log.
var ErrTimes = errors.New("wire: not the times of a piece of a log")

// FormatMarks writes the marks of a piece that begins at an offset: OFFSET:MILLISECONDS, separated by commas. The
// offset of the first mark is relative to the beginning of the piece, and its time is in Unix time. The offset and time
// of each other mark are relative to the previous mark.
func FormatMarks(from int64, marks []LogMark) string {
	var b strings.Builder
	at := int64(0)
	for i, m := range marks {
		if i > 0 {
			b.WriteByte(',')
		}
		ms := m.At.UnixMilli()
		fmt.Fprintf(&b, "%d:%d", m.Offset-from, ms-at)
		from, at = m.Offset, ms
	}
	return b.String()
}

// ParseMarks reads what FormatMarks has written of a piece of size bytes. It returns ErrTimes for anything else.
func ParseMarks(from, size int64, text string) (marks []LogMark, err error) {
	if text == "" {
		return nil, nil
	}
	end, at := from+size, int64(0)
	for one := range strings.SplitSeq(text, ",") {
		offset, ms, _ := strings.Cut(one, ":")
		skip, err1 := strconv.ParseInt(offset, 10, 64)
		later, err2 := strconv.ParseInt(ms, 10, 64)
		if err1 != nil || err2 != nil || skip < 0 || skip >= end-from || len(marks) == MaxLogMarks {
			return nil, ErrTimes
		}
		from, at = from+skip, at+later
		marks = append(marks, LogMark{from, time.UnixMilli(at).UTC()})
	}
	return marks, nil
}

// MarksAt drops the marks that apply only to data before an offset. The first mark that it keeps is the one that
// applies at the offset: the last mark whose Offset is not greater. Without such a mark, it drops none.
func MarksAt(marks []LogMark, offset int64) []LogMark {
	for len(marks) > 1 && marks[1].Offset <= offset {
		marks = marks[1:]
	}
	return marks
}

// MarksFrom returns the marks of the data from an offset on. If the mark that applies at the offset begins earlier, its
// copy in the result begins at the offset.
func MarksFrom(marks []LogMark, offset int64) []LogMark {
	marks = MarksAt(marks, offset)
	if len(marks) == 0 || marks[0].Offset >= offset {
		return marks
	}
	return append([]LogMark{{offset, marks[0].At}}, marks[1:]...)
}

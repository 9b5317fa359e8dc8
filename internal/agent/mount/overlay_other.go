//go:build !linux

package mount

import (
	"io/fs"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
)

type overlay struct{ lower, upper, point string }

func newOverlay(Spec) (overlay, bool) { return overlay{}, false }

func (overlay) mount(string) error { return ErrNoFUSE }

func (overlay) refresh() error { return nil }

func (overlay) noteMark(*contents, string) bool { return false }

func (overlay) process() *proc.Tree { return nil }

func (overlay) failed() bool { return false }

func (overlay) end() {}

func beingWritten(string) bool { return false }

func isWhiteout(fs.FileInfo) bool { return false }

func opaqueSince(string) (time.Time, bool) { return time.Time{}, false }

func stampOf(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), written: info.ModTime().UnixNano()}
}

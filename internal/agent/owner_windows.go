package agent

import "io/fs"

// ownerOf is not used: tasks do not run on Windows.
func ownerOf(fs.FileInfo) (uid int, links uint64) { return -1, 1 }

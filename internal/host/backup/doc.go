// Package backup copies the state folder of a broker in one process into a file, also while the broker runs. It also
// makes a state folder from such a file.
//
// A backup is a gzipped tar archive. Its first entry is the manifest, and its last entry has the SHA-256 of every
// other one. The records are those of one moment. The broker removes no object until the files have been copied, so
// all outputs and checkpoints that the records refer to are there. Files that change meanwhile are newer than the
// records.
//
// The user's token, running.json and everything of machines is left out. The key is included, because it opens the
// secrets of unfinished jobs.
package backup

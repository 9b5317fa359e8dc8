// Package backup copies the state folder of a broker in one process into a file, also while the broker runs, and makes
// a state folder from such a file.
//
// A backup is a gzipped tar archive. Its first entry is the manifest, its last one has the SHA-256 of every other
// entry. The records are those of one moment. The broker removes no object until the files have been copied,
// so all outputs and checkpoints that the records refer to are there. Files that change meanwhile are newer than the
// records.
//
// The user's token, running.json and everything of machines is left out. The key is not: it opens the secrets of
// unfinished jobs.
package backup

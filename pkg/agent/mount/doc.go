// Package mount lets a task read, and write, a bucket or folder where it lies, by rclone and FUSE: one process of
// rclone a mount, which lives no longer than the agent.
//
// rclone is told where and with which credentials by files that its user alone may read, never by its arguments or
// environment. Credentials are renewed while it runs (see Mount.Renew). Of what it does with what is written the
// package knows by rclone's remote control, a socket beside those files, and by the notes that its cache keeps of
// every file that has not been uploaded yet, which outlive it.
//
// It knows nothing of tasks: what is mounted where, and what becomes of a task whose mount is lost, is package agent's
// matter.
package mount

// Package mount lets a task read and write a bucket or folder in place, with rclone and FUSE. Each mount is one
// rclone process, which ends with the agent at the latest.
//
// rclone gets its remote and credentials from files that only its user can read, never from its arguments or
// environment. Credentials are renewed while it runs (see Mount.Renew). The package learns the state of uploads from
// rclone's remote control, a socket in the directory of those files, and from the metadata that rclone's cache keeps
// for every file that has not been uploaded yet, which outlives rclone.
//
// The package does not use tasks. Package agent decides which inputs are mounted and where, and how a task ends that
// loses a mount.
package mount

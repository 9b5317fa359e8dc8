package driver

import "context"

// Cleaner is a driver whose launches create other resources than machines in the account, such as a security group
// that all machines of the deployment share.
type Cleaner interface {
	// Clean deletes these resources, and calls tell for each. It is called when no machine of the deployment exists.
	// A second call finds nothing.
	Clean(ctx context.Context, tell func(deleted string)) error
}

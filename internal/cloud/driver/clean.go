package driver

import "context"

// Cleaner is a driver whose launches create more in the account than machines, such as a security group that all
// machines of the deployment share.
type Cleaner interface {
	// Clean deletes it, and reports each deleted thing to tell. It is called when no machine of the deployment exists.
	// A second call finds nothing.
	Clean(ctx context.Context, tell func(deleted string)) error
}

package lambdahost

import (
	"github.com/tradewind-broker/tradewind/pkg/store/dynamo"
)

// Records is the part that keeps records in the table.
func Records(h *Host) error {
	st, err := dynamo.New(h.AWS, h.Env.Table, dynamo.Options{Log: h.log, Now: h.Ports.Now})
	if err != nil {
		return err
	}
	h.Ports.Store, h.Outbox = st, st
	return nil
}

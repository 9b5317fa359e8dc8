package host

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// poolTimes suit machines that reach the broker over the loopback address, where a call costs nothing and none is lost:
// what becomes of a machine is noticed within seconds of the wall's clock, however fast virtual time passes.
func poolTimes(virtual func(wall time.Duration) time.Duration) record.PoolTimes {
	t := record.DefaultPoolTimes()
	t.Beat, t.StaleAfter, t.LostAfter = virtual(time.Second), virtual(4*time.Second), virtual(8*time.Second)
	t.Busy, t.Idle = virtual(300*time.Millisecond), virtual(time.Second)
	t.Known, t.Turn = virtual(500*time.Millisecond), virtual(100*time.Millisecond)
	t.BlockFor = max(t.BlockFor, virtual(time.Minute))
	return t
}

// tokensFor is how long tokens of pools are good at least, wall time, however fast virtual time passes.
const tokensFor = 24 * time.Hour

// machineTokens makes and checks the tokens of pools' machines with the key that agents' tokens are signed with.
func (h *Host) machineTokens(key []byte) *api.MachineTokens {
	lasts := max(tokensFor, time.Duration(float64(tokensFor)/h.clock.Wall(time.Hour).Hours()))
	return &api.MachineTokens{
		Mint:    func(c wire.PoolClaims) (string, error) { return token.MintPool(key, c) },
		Verify:  func(text string) (wire.PoolClaims, error) { return token.VerifyPool(key, text, h.clock.Now()) },
		JoinFor: lasts, MachineFor: lasts,
	}
}

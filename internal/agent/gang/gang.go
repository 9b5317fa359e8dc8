// Package gang describes the other nodes of a gang to a task: in variables and files that any program can read, and
// in the variables that the task's framework expects.
package gang

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/rsh"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// Node is one node of a gang.
type Node struct {
	Name    string // ROLE-RANK
	Role    string
	Address string
	Slots   int
	Attempt string
	Rank    int // within its role
}

// Nodes returns all nodes of a gang: first those of its head, then the others in the order of the job's file.
func Nodes(g *wire.Gang) (nodes []Node) {
	head := headOf(g)
	for _, m := range slices.Concat([]wire.Member{head}, slices.DeleteFunc(slices.Clone(g.Members),
		func(m wire.Member) bool { return m.Role == head.Role && m.First == head.First })) {
		for rank, address := range m.Nodes {
			nodes = append(nodes, Node{
				Name: m.Role + "-" + strconv.Itoa(m.First+rank), Role: m.Role, Address: address,
				Slots: max(m.Slots, 1), Attempt: m.Attempt, Rank: m.First + rank,
			})
		}
	}
	return nodes
}

// The names of the frameworks that this package supports, as job files have them (dag.Framework). An agent links no
// part of the job model.
const (
	pyTorch    = "pytorch"
	tensorFlow = "tensorflow"
	mpi        = "mpi"
	horovod    = "horovod"
	ray        = "ray"
	spark      = "spark"
	dask       = "dask"
)

// heads has, for each framework, the names of the roles to which the other roles connect.
var heads = map[string][]string{
	ray: {"head"}, spark: {"master"}, dask: {"scheduler"},
	pyTorch: {"master", "chief", "launcher"},
	mpi:     {"launcher", "master"}, horovod: {"launcher", "master", "driver"},
	tensorFlow: {"chief", "master"},
}

// headOf returns the member to whose first node the others connect: the one with one of the framework's head names,
// or else the first member.
func headOf(g *wire.Gang) wire.Member {
	for _, name := range heads[g.Framework] {
		for _, m := range g.Members {
			if strings.EqualFold(m.Role, name) {
				return m
			}
		}
	}
	if len(g.Members) == 0 {
		return wire.Member{}
	}
	return g.Members[0]
}

// firstPort and ports are the range of ports for the heads of gangs. It is below the range that systems use for
// outgoing connections.
const (
	firstPort = 20_000
	ports     = 10_000
)

// Port returns a port for an attempt. All nodes compute the same port, and different attempts usually different ones.
func Port(attempt string) int {
	h := uint32(2166136261)
	for i := range len(attempt) {
		h = (h ^ uint32(attempt[i])) * 16777619
	}
	return firstPort + int(h%ports)
}

// Files is the folder for a task's files, next to its scripts.
type Files struct {
	Dir  string // the directory
	Self string // path of this program, which the task starts as a client of rsh; empty if it cannot
}

// Write writes the files of a gang, and returns the variables for a node's task.
//
//	TRADEWIND_GANG, _ROLE            the gang, and the task's role in it
//	TRADEWIND_HOSTS_<ROLE>           the addresses of a role by rank, comma-separated
//	TRADEWIND_GANG_RANK, _SIZE       the node's number among all nodes, head first, and how many there are
//	TRADEWIND_GANG_HEAD, _PORT       the address of the first of them, and a port that is the same on all nodes
//	TRADEWIND_HOSTFILE               a file: ADDRESS slots=N for each node that works
//	TRADEWIND_HOSTS                  a file in the format of /etc/hosts: ADDRESS ROLE-RANK
//	TRADEWIND_RSH_AGENT              a program that runs a command on another node, like ssh
func Write(g *wire.Gang, rank int, to Files) (map[string]string, error) {
	nodes := Nodes(g)
	if len(nodes) == 0 {
		return nil, nil
	}
	self := slices.IndexFunc(nodes, func(n Node) bool { return n.Role == g.Role && n.Rank == g.First+rank })
	if self < 0 {
		return nil, fmt.Errorf("gang: rank %d of role %s is not among the nodes", rank, g.Role)
	}
	env := map[string]string{
		"TRADEWIND_ROLE": g.Role, "TRADEWIND_GANG_RANK": strconv.Itoa(self),
		"TRADEWIND_GANG_SIZE": strconv.Itoa(len(nodes)), "TRADEWIND_GANG_HEAD": nodes[0].Address,
		"TRADEWIND_GANG_PORT": strconv.Itoa(Port(nodes[0].Attempt)),
		"TRADEWIND_HOSTFILE":  filepath.Join(to.Dir, "hostfile"), "TRADEWIND_HOSTS": filepath.Join(to.Dir, "hosts"),
	}
	if g.Name != "" {
		env["TRADEWIND_GANG"] = g.Name
	}
	var hostfile, hosts strings.Builder
	for _, n := range nodes {
		if !isLauncher(g, n) {
			fmt.Fprintf(&hostfile, "%s slots=%d\n", n.Address, n.Slots)
		}
		fmt.Fprintf(&hosts, "%s %s\n", n.Address, n.Name)
	}
	for _, m := range g.Members {
		name := "TRADEWIND_HOSTS_" + roleVariable(m.Role)
		if before := env[name]; before != "" {
			m.Nodes = append([]string{before}, m.Nodes...)
		}
		env[name] = strings.Join(m.Nodes, ",")
	}
	if err := files.Write(env["TRADEWIND_HOSTFILE"], 0o600, []byte(hostfile.String())); err != nil {
		return nil, err
	}
	if err := files.Write(env["TRADEWIND_HOSTS"], 0o600, []byte(hosts.String())); err != nil {
		return nil, err
	}
	if to.Self != "" && len(g.Key) > 0 {
		if err := writeRSH(g, nodes, to, env); err != nil {
			return nil, err
		}
	}
	words, err := frameworkEnv(g, nodes, self, env)
	maps.Copy(env, words)
	return env, err
}

// roleVariable converts a role's name for use in variable names: upper case, with _ for invalid characters
// (dag.RoleVariable).
func roleVariable(role string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, role)
}

// isLauncher reports whether a node only starts programs on the other nodes.
func isLauncher(g *wire.Gang, n Node) bool {
	f := g.Framework
	return (f == mpi || f == horovod) && len(g.Members) > 1 && n.Role == headOf(g).Role
}

// writeRSH writes the program that runs commands on other nodes.
func writeRSH(g *wire.Gang, nodes []Node, to Files, env map[string]string) error {
	hosts := rsh.Hosts{Key: g.Key, Ports: map[string]string{}}
	for _, n := range nodes {
		at := ListenAddress(g, n)
		hosts.Ports[n.Name], hosts.Ports[n.Address] = at, at
	}
	text, err := json.Marshal(hosts)
	if err != nil {
		return err
	}
	file, program := filepath.Join(to.Dir, "rsh.json"), filepath.Join(to.Dir, "rsh")
	if err := files.Write(file, 0o600, text); err != nil {
		return err
	}
	env["TRADEWIND_RSH_AGENT"] = program
	return files.Write(program, 0o700, []byte(rsh.Script(to.Self, file)))
}

// ListenAddress returns the address at which a node accepts commands from other nodes.
func ListenAddress(g *wire.Gang, n Node) string {
	return net.JoinHostPort(n.Address, strconv.Itoa(rsh.Port(g.Key, n.Attempt, n.Rank)))
}

// OwnNode returns the node with a rank in the gang's own role.
func OwnNode(g *wire.Gang, rank int) (Node, bool) {
	nodes := Nodes(g)
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Role == g.Role && n.Rank == g.First+rank })
	if i < 0 {
		return Node{}, false
	}
	return nodes[i], true
}

// device returns the network interface that has an address; empty if none has.
func device(address string) string {
	ip := net.ParseIP(address)
	all, err := net.Interfaces()
	if ip == nil || err != nil {
		return ""
	}
	for _, i := range all {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && (n.IP.Equal(ip) || ip.IsLoopback() && n.Contains(ip)) {
				return i.Name
			}
		}
	}
	return ""
}

// frameworkEnv returns the variables that a framework expects.
func frameworkEnv(g *wire.Gang, nodes []Node, self int, env map[string]string) (map[string]string, error) {
	head, port := nodes[0].Address, env["TRADEWIND_GANG_PORT"]
	at := net.JoinHostPort(head, port)
	own := nodes[self]
	nic := device(own.Address)
	switch g.Framework {
	case pyTorch:
		restarts := ""
		if g.Most > g.Least { // a node fails when one of its peers leaves, and restarts with the remaining nodes
			restarts = "100"
		}
		// The head hosts the store by which torchrun's nodes find each other. By default, torchrun finds the host by
		// comparing addresses. This fails on loopback addresses: every node believes that it is the host, so the
		// first one to start becomes it. If that is a machine that joined later, all nodes lose the store when it
		// leaves. On some clouds' images, no node finds its own address.
		host := "is_host=" + strconv.FormatBool(self == 0)
		return dropEmpty(map[string]string{
			"PET_MAX_RESTARTS": restarts,
			"MASTER_ADDR":      head, "MASTER_PORT": port, "WORLD_SIZE": strconv.Itoa(len(nodes)),
			"RANK":       strconv.Itoa(self),
			"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "NNODES": strconv.Itoa(len(nodes)),
			"NODE_RANK": strconv.Itoa(self), "PET_NNODES": nodeRange(g, len(nodes)), "PET_NPROC_PER_NODE": "1",
			"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": at, "PET_RDZV_ID": nodes[0].Attempt,
			"PET_RDZV_CONF":      host,
			"GLOO_SOCKET_IFNAME": nic, "NCCL_SOCKET_IFNAME": nic,
		}), nil
	case tensorFlow:
		return tfConfig(g, own)
	case mpi, horovod:
		return dropEmpty(map[string]string{
			"OMPI_MCA_orte_default_hostfile": env["TRADEWIND_HOSTFILE"], "HYDRA_HOST_FILE": env["TRADEWIND_HOSTFILE"],
			"OMPI_MCA_plm_rsh_agent": env["TRADEWIND_RSH_AGENT"], "HYDRA_LAUNCHER_EXEC": env["TRADEWIND_RSH_AGENT"],
			"OMPI_MCA_oob_tcp_if_include": nic, "OMPI_MCA_btl_tcp_if_include": nic,
			"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "HOROVOD_GLOO_IFACE": nic,
		}), nil
	case ray:
		return map[string]string{"RAY_ADDRESS": at}, nil
	case spark:
		return map[string]string{
			"SPARK_MASTER": "spark://" + at, "SPARK_MASTER_HOST": head, "SPARK_MASTER_PORT": port,
			"SPARK_LOCAL_IP": own.Address,
		}, nil
	case dask:
		return map[string]string{"DASK_SCHEDULER_ADDRESS": "tcp://" + at}, nil
	}
	return nil, nil
}

// nodeRange returns the number of nodes or, if nodes may join and leave, torchrun's range of the minimum and maximum
// number. In that case RANK and WORLD_SIZE are only valid at the start.
func nodeRange(g *wire.Gang, nodes int) string {
	if g.Most <= g.Least {
		return strconv.Itoa(nodes)
	}
	return fmt.Sprintf("%d:%d", g.Least, g.Most)
}

// dropEmpty removes empty variables, because a program would use them instead of the values that it finds by itself.
func dropEmpty(env map[string]string) map[string]string {
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	return env
}

// tfConfig returns TF_CONFIG, TensorFlow's description of the cluster: the addresses of its roles, with a separate
// port for each node.
func tfConfig(g *wire.Gang, own Node) (map[string]string, error) {
	cluster := map[string][]string{}
	for _, m := range g.Members {
		for rank, address := range m.Nodes {
			port := Port(m.Attempt + "/" + strconv.Itoa(rank))
			role := strings.ToLower(m.Role)
			cluster[role] = append(cluster[role], net.JoinHostPort(address, strconv.Itoa(port)))
		}
	}
	text, err := json.Marshal(map[string]any{
		"cluster": cluster,
		"task":    map[string]any{"type": strings.ToLower(cmp.Or(own.Role, "worker")), "index": own.Rank},
	})
	return map[string]string{"TF_CONFIG": string(text)}, err
}

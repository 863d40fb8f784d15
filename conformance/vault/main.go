// A real Vault server with the engines and logins that `cargo xtask conformance secrets` needs, in memory, unsealed, on a
// free port. It prints its address, root token and unseal key as one line of JSON and serves until it is ended.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	jwt "github.com/hashicorp/vault-plugin-auth-jwt"
	kubernetes "github.com/hashicorp/vault-plugin-auth-kubernetes"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/framework"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

var engines = map[string]logical.Factory{"kv": kv.Factory, "lender": lender}

var logins = map[string]logical.Factory{"approle": approle.Factory, "jwt": jwt.Factory, "kubernetes": kubernetes.Factory}

// lender is an engine whose logins are leased, as those of databases are.
func lender(ctx context.Context, config *logical.BackendConfig) (logical.Backend, error) {
	login := &framework.Secret{
		Type:            "login",
		DefaultDuration: time.Hour,
		Fields:          map[string]*framework.FieldSchema{"password": {Type: framework.TypeString}},
		Revoke: func(context.Context, *logical.Request, *framework.FieldData) (*logical.Response, error) {
			return nil, nil
		},
	}
	read := func(_ context.Context, _ *logical.Request, data *framework.FieldData) (*logical.Response, error) {
		password := "lent-to-" + data.Get("name").(string)
		return login.Response(map[string]interface{}{"password": password}, nil), nil
	}
	backend := &framework.Backend{
		BackendType: logical.TypeLogical,
		Secrets:     []*framework.Secret{login},
		Paths: []*framework.Path{{
			Pattern:    "creds/" + framework.GenericNameRegex("name"),
			Fields:     map[string]*framework.FieldSchema{"name": {Type: framework.TypeString}},
			Operations: map[logical.Operation]framework.OperationHandler{logical.ReadOperation: &framework.PathOperation{Callback: read}},
		}},
	}
	return backend, backend.Setup(ctx, config)
}

// registry tells the server which engines and logins are built in.
type registry struct{}

func factories(kind consts.PluginType) map[string]logical.Factory {
	switch kind {
	case consts.PluginTypeCredential:
		return logins
	case consts.PluginTypeSecrets:
		return engines
	default:
		return nil
	}
}

func (registry) Contains(name string, kind consts.PluginType) bool {
	_, known := factories(kind)[name]
	return known
}

func (registry) Get(name string, kind consts.PluginType) (func() (interface{}, error), bool) {
	factory, known := factories(kind)[name]
	return func() (interface{}, error) { return factory, nil }, known
}

func (registry) Keys(kind consts.PluginType) []string {
	var names []string
	for name := range factories(kind) {
		names = append(names, name)
	}
	return names
}

func (r registry) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, r.Contains(name, kind)
}

func (registry) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }

func serve() error {
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr})
	storage, err := inmem.NewInmem(nil, logger)
	if err != nil {
		return err
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		BuiltinRegistry:    registry{},
		LogicalBackends:    engines,
		CredentialBackends: logins,
		Physical:           storage,
		StorageType:        "inmem",
		Logger:             logger,
		DisableMlock:       true,
	})
	if err != nil {
		return err
	}
	ctx := context.Background()
	seal := &vault.SealConfig{SecretShares: 1, SecretThreshold: 1}
	made, err := core.Initialize(ctx, &vault.InitParams{BarrierConfig: seal})
	if err != nil {
		return err
	}
	if _, err := core.Unseal(append([]byte(nil), made.SecretShares[0]...)); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	told := map[string]string{
		"address": "http://" + listener.Addr().String(),
		"token":   made.RootToken,
		"key":     base64.StdEncoding.EncodeToString(made.SecretShares[0]),
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		return err
	}
	properties := &vault.HandlerProperties{Core: core, ListenerConfig: &configutil.Listener{}}
	return http.Serve(listener, vaulthttp.Handler.Handler(properties))
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// What an operator of NATS makes with `nsc`: an account with JetStream, the server's configuration of it, and credentials
// files of its users.

import { nkeys } from '@nats-io/transport-node'

type KeyPair = ReturnType<typeof nkeys.createUser>

/** No limit. */
const ANY = -1
const ACCOUNT_LIMITS = {
  subs: ANY,
  data: ANY,
  payload: ANY,
  imports: ANY,
  exports: ANY,
  wildcards: true,
  conn: ANY,
  leaf: ANY,
  mem_storage: ANY,
  disk_storage: ANY,
  streams: ANY,
  consumer: ANY,
}
const USER_LIMITS = { subs: ANY, data: ANY, payload: ANY }

export interface NatsOperator {
  /** Lines of nats.conf. */
  readonly configuration: string
  /** The text of a credentials file, with a key of its own each time. */
  newUser(): string
}

export function createNatsOperator(): NatsOperator {
  const operator = nkeys.createOperator()
  const account = nkeys.createAccount()
  const system = nkeys.createAccount()
  const accountToken = (key: KeyPair, name: string, limits: object): string =>
    signed(operator, { sub: key.getPublicKey(), name, nats: { limits, type: 'account', version: 2 } })
  const operatorToken = signed(operator, {
    sub: operator.getPublicKey(),
    name: 'operator',
    nats: { type: 'operator', version: 2 },
  })
  const { mem_storage: _memory, disk_storage: _disk, ...systemLimits } = ACCOUNT_LIMITS
  return {
    configuration: [
      `operator: ${operatorToken}`,
      `system_account: ${system.getPublicKey()}`,
      'resolver: MEMORY',
      'resolver_preload {',
      `  ${account.getPublicKey()}: ${accountToken(account, 'sluice', ACCOUNT_LIMITS)}`,
      `  ${system.getPublicKey()}: ${accountToken(system, 'system', systemLimits)}`,
      '}',
    ].join('\n'),
    newUser() {
      const user = nkeys.createUser()
      const nats = { ...USER_LIMITS, pub: {}, sub: {}, type: 'user', version: 2 }
      const token = signed(account, { sub: user.getPublicKey(), name: 'sluice', nats })
      const seed = new TextDecoder().decode(user.getSeed())
      return [
        '-----BEGIN NATS USER JWT-----',
        token,
        '------END NATS USER JWT------',
        '',
        '-----BEGIN USER NKEY SEED-----',
        seed,
        '------END USER NKEY SEED------',
        '',
      ].join('\n')
    },
  }
}

function signed(issuer: KeyPair, claims: object): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const issuedAt = Math.floor(Date.now() / 1000)
  const text = `${part({ typ: 'JWT', alg: 'ed25519-nkey' })}.${part({ iat: issuedAt, iss: issuer.getPublicKey(), ...claims })}`
  return `${text}.${Buffer.from(issuer.sign(Buffer.from(text))).toString('base64url')}`
}

// @ts-check
// node put-entry.mjs KEY TEXT: puts it into the KV bucket of the apps of the NATS at NATS_URL, whatever it is.

import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'

const [key, text] = process.argv.slice(2)
const connection = await connect({ servers: (process.env['NATS_URL'] ?? '').replace('nats://', '') })
await (await new Kvm(connection).create('SLUICE_APPS')).put(key, text)
await connection.close()

// Joins the consoles of the other nodes, over NATS.

import { randomBytes } from 'node:crypto'
import { systemTimers } from '../../lib/timers.ts'
import type { NatsAccess } from '../../nats/address.ts'
import { Peers } from '../../nats/peers.ts'
import { Cluster, type ClusterOptions } from './cluster.ts'

const ID_BYTES = 6

/** Over a connection of its own, so that what people look at never waits before what is stored. */
export function joinOthers(nats: NatsAccess, { own, onFault }: Pick<ClusterOptions, 'own' | 'onFault'>) {
  const id = randomBytes(ID_BYTES).toString('hex')
  const peers: Peers = new Peers({ nats, onFault, onUp: () => cluster.up() })
  const cluster: Cluster = new Cluster({ peers, own, id, timers: systemTimers, onFault })
  cluster.start()
  const stop = async (): Promise<void> => {
    cluster.stop()
    await peers.stop()
  }
  return { cluster, stop }
}

// Where the admin port of the service on a data folder listens: a file in the folder, by which commands find it.

import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { StartError } from './errors.ts'
import { isLocked } from './lock.ts'
import { openNew } from './new-file.ts'
import { readRegular } from './regular-file.ts'

const FILE_NAME = 'admin.json'

export interface AdminAddress {
  readonly host: string
  readonly port: number
}

/** To be called with the folder's lock held. Returns what removes the file. */
export async function writeAdminAddress(directory: string, address: AdminAddress): Promise<() => Promise<void>> {
  const path = join(directory, FILE_NAME)
  // First of all the one that a killed service left: where this one cannot be written, there is none.
  await rm(path, { force: true })
  const file = await openNew(`${path}.new`)
  await file.writeFile(`${JSON.stringify(address)}\n`).finally(() => file.close())
  await rename(`${path}.new`, path)
  return () => rm(path, { force: true })
}

/** null: no service works on the folder, or it wrote no address. Throws a StartError where what it wrote is damaged. */
export async function readAdminAddress(directory: string): Promise<AdminAddress | null> {
  if (!(await isLocked(directory))) return null
  const path = join(directory, FILE_NAME)
  const text = await readRegular(path).catch(() => null)
  if (text === null) return null
  try {
    const { host, port } = JSON.parse(text) as Record<string, unknown>
    const isPort = typeof port === 'number' && Number.isInteger(port) && port > 0 && port <= 65_535
    if (isPort && typeof host === 'string' && host !== '') return { host, port }
  } catch {
    // Not JSON, or null.
  }
  throw new StartError(`${path} is damaged: set SLUICE_ADMIN_PORT to the admin_port that the service logged`)
}

/** As it stands in a URL. */
export function hostAndPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/** What reaches an address from this machine: one for all interfaces is reached as localhost. */
export function hostToReach(host: string): string {
  return host === '0.0.0.0' || host === '::' ? 'localhost' : host
}

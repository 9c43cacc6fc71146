// A folder that a setting names, for this node's own files.

import { accessSync, constants, type Stats, statSync } from 'node:fs'
import { errorMessage, StartError } from '../lib/errors.ts'
import { makeFolder } from '../lib/folder.ts'
import type { OnNotice } from '../lib/notice.ts'

export interface OwnFolder {
  readonly setting: 'SLUICE_DATA_DIR' | 'SLUICE_SPOOL_DIR'
  readonly directory: string
  /** Of a folder that is made. Nobody's mode is changed: it may be a folder that others use. */
  readonly mode: number
  readonly onNotice: OnNotice
}

export function inUseText(directory: string, setting: OwnFolder['setting']): string {
  return `${directory} is in use: another sluice process works in this folder (stop it, or set ${setting} to another one)`
}

/** Throws a StartError where it cannot be used, or where another user could put files of their own there. */
export async function takeOwnFolder({ setting, directory, mode, onNotice }: OwnFolder): Promise<void> {
  try {
    await makeFolder(directory, mode)
    accessSync(directory, constants.W_OK | constants.X_OK)
  } catch (error) {
    if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() === false)
      throw new StartError(`${setting}: ${directory} is no folder: name one`)
    const advice = 'give it to the user that runs sluice, or name another folder'
    throw new StartError(`${setting}: cannot make ${directory} or write in it: ${errorMessage(error)}; ${advice}`)
  }
  const risk = riskOf(statSync(directory), process.getuid?.() ?? 0, (mode & 0o070) === 0)
  if (risk === null) return
  const text = `${directory} ${risk.text}: give it to the user that runs sluice, with mode 0${mode.toString(8)}`
  if (risk.isRefused) throw new StartError(`${setting}: ${text}`)
  onNotice(`${setting}: ${text}`)
}

/** Who else could read or change what clients sent. `isPrivate`: no other user is to read it. Root's volumes are nobody's. */
export function riskOf({ uid, mode }: Pick<Stats, 'uid' | 'mode'>, user: number, isPrivate: boolean) {
  const isStrange = uid !== user && uid !== 0
  if (isStrange && (mode & 0o022) !== 0)
    return { isRefused: true, text: 'is a folder of another user, and others may write to it' }
  if (isStrange) return { isRefused: false, text: 'is a folder of another user, who can change what is in it' }
  return isPrivate && (mode & 0o007) !== 0 ? { isRefused: false, text: 'is open to every user of this machine' } : null
}

// A program that uses the Python client, with a service of its own (scripted_service.py).

import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import { expect } from 'vitest'
import { makeFolder } from '../support/service.ts'

const CLIENT = resolve(import.meta.dirname, '../../clients/python')

/** What the program printed. It has assertions of its own, and ends with 0 where they hold. */
export async function expectToRun(program: string): Promise<string> {
  const folder = await makeFolder()
  const { status, signal, stdout, stderr } = spawnSync(
    'python3',
    ['-c', `from scripted_service import *\nimport sluice_client\n${program}`],
    {
      encoding: 'utf8',
      env: {
        ...process.env,
        PYTHONPATH: `${CLIENT}:${import.meta.dirname}`,
        PYTHONDONTWRITEBYTECODE: '1',
        FOLDER: folder,
      },
    },
  )
  expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: '' })
  return stdout
}

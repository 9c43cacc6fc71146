// What is used of typebox. The build makes one file of it, since its 700 files took a third of a second of each start.

export { type Static, type TSchema, Type } from 'typebox'
export { Check } from 'typebox/schema'

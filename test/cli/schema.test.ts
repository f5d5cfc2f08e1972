import t from 'tap'
import yargs from 'yargs'
import { schemaCommand } from '../../src/cli/schema.js'
import { onDemand } from '../../src/cli/command.js'
import { jsonSchema } from '../../src/config/json-schema.js'

t.test('prints the JSON Schema on stdout, nothing on stderr, exit 0', async t => {
  const written: string[] = []
  const codes: number[] = []
  const io = {
    stdout: (text: string) => void written.push(text),
    stderr: () => t.fail('nothing to say'),
    color: false,
  }
  const command = schemaCommand(io, code => codes.push(code))
  await yargs(['schema'])
    .command(onDemand('schema', '', async () => command))
    .exitProcess(false)
    .parseAsync()
  t.same(codes, [0])
  t.ok(written.join('').endsWith('}\n'))
  t.same(JSON.parse(written.join('')), jsonSchema())
})

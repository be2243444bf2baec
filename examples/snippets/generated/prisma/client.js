/**
 * What `prisma generate` 7.10 makes of this model, without what is not used here. Its CLI
 * downloads an engine when it is installed, so it is no dependency of this repository. The
 * client needs none.
 *
 * ```prisma
 * model Account {
 *   id    String @id
 *   cents Int
 *
 *   @@map("account")
 * }
 * ```
 */
import { getPrismaClient } from '@prisma/client/runtime/client';

export const PrismaClient = getPrismaClient({
  previewFeatures: [],
  clientVersion: '7.10.0',
  engineVersion: 'd1b3f377ca835d73fd50954a5e22128b9ebdd6b8',
  activeProvider: 'postgresql',
  inlineSchema:
    'generator client {\n  provider = "prisma-client"\n  output   = "../generated"\n}\n\ndatasource db {\n  provider = "postgresql"\n}\n\nmodel Account {\n  id    String @id\n  cents Int\n\n  @@map("account")\n}\n',
  runtimeDataModel: {
    models: {
      Account: {
        fields: [
          { name: 'id', kind: 'scalar', type: 'String' },
          { name: 'cents', kind: 'scalar', type: 'Int' },
        ],
        dbName: 'account',
        schema: null,
      },
    },
    enums: {},
    types: {},
  },
  parameterizationSchema: {
    strings: [
      'where',
      'Account.findUnique',
      'Account.findUniqueOrThrow',
      'orderBy',
      'cursor',
      'Account.findFirst',
      'Account.findFirstOrThrow',
      'Account.findMany',
      'data',
      'Account.createOne',
      'Account.createMany',
      'Account.createManyAndReturn',
      'Account.updateOne',
      'Account.updateMany',
      'Account.updateManyAndReturn',
      'create',
      'update',
      'Account.upsertOne',
      'Account.deleteOne',
      'Account.deleteMany',
      'having',
      '_count',
      '_avg',
      '_sum',
      '_min',
      '_max',
      'Account.groupBy',
      'Account.aggregate',
      'AND',
      'OR',
      'NOT',
      'id',
      'cents',
      'equals',
      'in',
      'notIn',
      'lt',
      'lte',
      'gt',
      'gte',
      'not',
      'contains',
      'startsWith',
      'endsWith',
      'set',
      'increment',
      'decrement',
      'multiply',
      'divide',
    ],
    graph:
      'KwsQBRwAACIAMB0AAAQAEB4AACIAMB8BAAAAASACACQAIQEAAAABACABAAAAAQAgBRwAACIAMB0AAAQAEB4AACIAMB8BACMAISACACQAIQADAAAABAAgAwAABQAwBAAAAQAgAwAAAAQAIAMAAAUAMAQAAAEAIAMAAAAEACADAAAFADAEAAABACACHwEAAAABIAIAAAABAQgAAAkAIAIfAQAAAAEgAgAAAAEBCAAACwAwAQgAAAsAMAIfAQAqACEgAgArACECAAAAAQAgCAAADgAgAh8BACoAISACACsAIQIAAAAEACAIAAAQACACAAAABAAgCAAAEAAgAwAAAAEAIA8AAAkAIBAAAA4AIAEAAAABACABAAAABAAgBRUAACUAIBYAACYAIBcAACkAIBgAACgAIBkAACcAIAUcAAAaADAdAAAXABAeAAAaADAfAQAbACEgAgAcACEDAAAABAAgAwAAFgAwFAAAFwAgAwAAAAQAIAMAAAUAMAQAAAEAIAUcAAAaADAdAAAXABAeAAAaADAfAQAbACEgAgAcACEOFQAAHgAgGAAAIQAgGQAAIQAgIQEAAAABIgEAAAAEIwEAAAAEJAEAAAABJQEAAAABJgEAAAABJwEAAAABKAEAIAAhKQEAAAABKgEAAAABKwEAAAABDRUAAB4AIBYAAB8AIBcAAB4AIBgAAB4AIBkAAB4AICECAAAAASICAAAABCMCAAAABCQCAAAAASUCAAAAASYCAAAAAScCAAAAASgCAB0AIQ0VAAAeACAWAAAfACAXAAAeACAYAAAeACAZAAAeACAhAgAAAAEiAgAAAAQjAgAAAAQkAgAAAAElAgAAAAEmAgAAAAEnAgAAAAEoAgAdACEIIQIAAAABIgIAAAAEIwIAAAAEJAIAAAABJQIAAAABJgIAAAABJwIAAAABKAIAHgAhCCEIAAAAASIIAAAABCMIAAAABCQIAAAAASUIAAAAASYIAAAAAScIAAAAASgIAB8AIQ4VAAAeACAYAAAhACAZAAAhACAhAQAAAAEiAQAAAAQjAQAAAAQkAQAAAAElAQAAAAEmAQAAAAEnAQAAAAEoAQAgACEpAQAAAAEqAQAAAAErAQAAAAELIQEAAAABIgEAAAAEIwEAAAAEJAEAAAABJQEAAAABJgEAAAABJwEAAAABKAEAIQAhKQEAAAABKgEAAAABKwEAAAABBRwAACIAMB0AAAQAEB4AACIAMB8BACMAISACACQAIQshAQAAAAEiAQAAAAQjAQAAAAQkAQAAAAElAQAAAAEmAQAAAAEnAQAAAAEoAQAhACEpAQAAAAEqAQAAAAErAQAAAAEIIQIAAAABIgIAAAAEIwIAAAAEJAIAAAABJQIAAAABJgIAAAABJwIAAAABKAIAHgAhAAAAAAABLAEAAAABBSwCAAAAAS0CAAAAAS4CAAAAAS8CAAAAATACAAAAAQAAAAAFFQAGFgAHFwAIGAAJGQAKAAAAAAAFFQAGFgAHFwAIGAAJGQAKAQIBAgMBBQYBBgcBBwgBCQoBCgwCCw0DDA8BDRECDhIEERMBEhQBExUCGhgFGxkL',
  },
  compilerWasm: {
    getRuntime: () =>
      import('@prisma/client/runtime/query_compiler_fast_bg.postgresql.mjs'),
    getQueryCompilerWasmModule: async () => {
      const { wasm } =
        await import('@prisma/client/runtime/query_compiler_fast_bg.postgresql.wasm-base64.mjs');
      return new WebAssembly.Module(Buffer.from(wasm, 'base64'));
    },
    importName: './query_compiler_fast_bg.js',
  },
});

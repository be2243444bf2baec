/**
 * The only import of the SDK's tools: schemas of the specification, JSON Schema, errors. `spec.ts` loads it when an
 * endpoint is made; the folder `src/server` imports the SDK's servers, transports and protocol classes.
 */
export {
  classifyInboundRequest,
  fromJsonSchema,
  inputRequired,
  isInputRequiredResult,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  specTypeSchemas,
} from '@modelcontextprotocol/server';
export { AjvJsonSchemaValidator } from '@modelcontextprotocol/server/validators/ajv';

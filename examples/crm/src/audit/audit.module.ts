import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Audit } from './audit.entity.js';
import { AuditSink } from './audit.sink.js';

@Module({
  imports: [TypeOrmModule.forFeature([Audit])],
  providers: [AuditSink],
  exports: [AuditSink],
})
export class AuditModule {}

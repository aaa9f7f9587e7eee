"""The result: scores, spans, citations, provenance, its renderings and its serialized form."""

from attribot_rag.attribution.attribution import Attribution as Attribution
from attribot_rag.attribution.attribution import attribution_schema as attribution_schema
from attribot_rag.attribution.attribution import summary_schema as summary_schema
from attribot_rag.attribution.composition import CitedOrigin as CitedOrigin
from attribot_rag.attribution.composition import ComposedSentence as ComposedSentence
from attribot_rag.attribution.composition import Composition as Composition
from attribot_rag.display.report import Markers as Markers
from attribot_rag.result import Basis as Basis
from attribot_rag.result import Check as Check
from attribot_rag.result import Citations as Citations
from attribot_rag.result import CitedSentence as CitedSentence
from attribot_rag.result import Counterfactual as Counterfactual
from attribot_rag.result import Marker as Marker
from attribot_rag.result import Numbering as Numbering
from attribot_rag.result import Provenance as Provenance
from attribot_rag.result import RankedDocument as RankedDocument
from attribot_rag.result import RankedSource as RankedSource
from attribot_rag.result import ResponseText as ResponseText
from attribot_rag.result import SourceGroup as SourceGroup
from attribot_rag.result import Verdict as Verdict
from attribot_rag.result import cite as cite
from attribot_rag.result.summary_schema import SCHEMA_VERSION as SCHEMA_VERSION
